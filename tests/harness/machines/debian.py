"""The Debian package as another version of itself."""

import subprocess


def rebuilt(folder, package, version, *, more=""):
    """Make the package with another version, and with more in its configuration; return the file."""
    """Return a package as another version of it, with more in its configuration."""
    content, made = folder / version, folder / f"{version}.deb"
    subprocess.run(["dpkg-deb", "-R", package, content], check=True)
    control = content / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("Version: 0.1.0\n", f"Version: {version}\n"))
    with (content / "etc/pubqueue/pubqueue.toml").open("a") as config:
        config.write(more)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", content, made], check=True)
    return made
