// Google's client for Node, unmodified, against PUBSUB_EMULATOR_HOST: publish, stream, nack, order. Prints what it has seen as JSON.
const { PubSub } = require("@google-cloud/pubsub");

const COUNT = 60;

async function main() {
  const pubsub = new PubSub({ projectId: "shop" });
  const [topic] = await pubsub.createTopic("orders");
  const [bill] = await topic.createSubscription("bill", { ackDeadlineSeconds: 10 });
  const [ordered] = await topic.createSubscription("ordered", { enableMessageOrdering: true });
  const seen = {};
  const keys = {};
  const done = new Set();
  let inOrder = 0;
  const finished = new Promise((resolve, reject) => {
    const look = () => done.size === COUNT && inOrder === COUNT && resolve();
    bill.on("error", reject);
    ordered.on("error", reject);
    bill.on("message", (message) => {
      const data = message.data.toString();
      seen[data] = (seen[data] || 0) + 1;
      if (seen[data] === 1 && Number(data) % 10 === 0) {
        message.nack();
        return;
      }
      message.ack();
      done.add(data);
      look();
    });
    ordered.on("message", (message) => {
      (keys[message.orderingKey] ||= []).push(Number(message.data.toString()));
      inOrder += 1;
      message.ack();
      look();
    });
  });
  const publisher = pubsub.topic("orders", { messageOrdering: true });
  const ids = [];
  for (let n = 0; n < COUNT; n += 1) {
    const message = { data: Buffer.from(`${n}`), orderingKey: `k${n % 3}`, attributes: { kind: "order" } };
    ids.push(publisher.publishMessage(message));
  }
  const published = await Promise.all(ids);
  await finished;
  await bill.close();
  await ordered.close();
  const [names] = await pubsub.getTopics();
  console.log(JSON.stringify({ ids: published, seen, keys, topics: names.map((one) => one.name) }));
  await pubsub.close();
}

main().then(
  () => process.exit(0),
  (problem) => {
    console.error(problem);
    process.exit(1);
  },
);
