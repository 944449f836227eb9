// A member of a Kafka group, of the library kafkajs: node member.js LIBRARY BOOTSTRAP GROUP TOPICS OPTIONS
//
// Arguments after the folder of the library, commands and events are those of tests/support/kafka_member.py.
"use strict";

const readline = require("node:readline");

const [library, bootstrap, groupId, topics, ownOptions] = process.argv.slice(2);
const { Kafka, logLevel } = require(library);
const options = { session_timeout_ms: 10000, heartbeat_interval_ms: 300, ...JSON.parse(ownOptions) };

let owned = [];
let lastCommitted = "";

const report = (event, partitions, details = {}) =>
  console.log(JSON.stringify({ at_ms: Date.now(), event, partitions, ...details }));

const revoke = () => {
  report("revoked", owned);
  owned = [];
};

// commit commits an offset of each partition. A consumer that is restarting itself returns at once, as if it had committed:
// only the library's event says that it has.
async function commit(consumer, offset, metadata) {
  const partitions = owned;
  let event = "committed";
  try {
    const offsets = partitions.map(([topic, partition]) => ({ topic, partition, offset: String(offset), metadata }));
    await consumer.commitOffsets(offsets);
    if (lastCommitted !== String(offset)) event = "commit_failed";
  } catch (error) {
    console.error(error);
    event = "commit_failed";
  }
  report(event, partitions, { offset, metadata });
}

// read asks the coordinator for the committed offset of each partition; only the library's admin client can.
async function read(kafka) {
  const admin = kafka.admin();
  let found;
  try {
    await admin.connect();
    found = await admin.fetchOffsets({ groupId, topics: topics.split(",") });
  } catch (error) {
    console.error(error);
    return report("read_failed", []);
  } finally {
    await admin.disconnect();
  }
  const offsets = found.flatMap(({ topic, partitions }) => partitions.map((each) => [topic, each.partition, each.offset]));
  const ofMember = owned.map((each) => offsets.find(([topic, partition]) => topic === each[0] && partition === each[1]));
  report("read", owned, { offsets: ofMember.map(([, , offset]) => Number(offset)) });
}

async function main() {
  const kafka = new Kafka({
    clientId: options.client_id,
    brokers: bootstrap.split(","),
    connectionTimeout: 30000,
    logLevel: logLevel.ERROR,
  });
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: options.session_timeout_ms,
    heartbeatInterval: options.heartbeat_interval_ms,
    maxWaitTimeInMs: 500,
    // A coordinator that is gone is looked up when the consumer restarts, which it does after these retries.
    retry: { retries: 3, initialRetryTime: 100, maxRetryTime: 1000 },
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke();
    owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) => numbers.map((each) => [topic, each]));
    report("assigned", owned, { member_id: payload.memberId });
  });
  consumer.on(consumer.events.REBALANCING, revoke);
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (payload.restart) return;
    console.error(payload.error);
    process.exit(1); // The library does not restart itself after this error.
  });
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    lastCommitted = String(payload.topics[0].partitions[0].offset);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: topics.split(",") });
  await consumer.run({ autoCommit: false, eachMessage: async () => {} });

  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, offset, metadata] = line.split(" ");
    if (command === "leave") {
      await consumer.disconnect();
      report("left", []);
      return process.exit(0);
    }
    if (command === "read") await read(kafka);
    else await commit(consumer, Number(offset), metadata);
  }
  process.exit(1); // Whatever started the process has ended.
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
