// stompit, unmodified: send with receipt, receive, nack, ack, a transaction, beats, disconnect.
const stompit = require("stompit");
const [port, passcode] = process.argv.slice(2);

stompit.connect({ host: "127.0.0.1", port, connectHeaders: { host: "/", login: "etl", passcode, "heart-beat": "5000,5000" } }, (error, client) => {
  if (error) throw error;
  const send = (to, body, then) => {
    const frame = to.send({ destination: "/queue/jobs", "content-type": "text/plain" }, { onReceipt: then });
    frame.write(body);
    frame.end();
  };
  let seen = 0;
  const commit = () => {
    const transaction = client.begin();
    send(transaction, "two");
    transaction.commit({ onReceipt: () => console.log("committed") });
  };
  send(client, "one", () => {
    console.log("sent");
    client.subscribe({ destination: "/queue/jobs", ack: "client-individual" }, (problem, message) => {
      if (problem) return;
      message.readString("utf8", (_, body) => {
        seen += 1;
        console.log(`got ${body}, ${seen === 1 ? "nack" : "ack"}`);
        if (seen === 1) client.nack(message);
        else client.ack(message);
        if (seen === 2) commit();
        if (seen === 3) client.disconnect(() => console.log("disconnected"));
      });
    });
  });
});
