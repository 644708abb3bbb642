"""Operations on clients of the service itself: their connections, and the URLs that they register."""
