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

async function main() {
  const kafka = new Kafka({ clientId: options.client_id, brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: options.session_timeout_ms,
    heartbeatInterval: options.heartbeat_interval_ms,
    maxWaitTimeInMs: 500,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 },
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke();
    owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) => numbers.map((each) => [topic, each]));
    report("assigned", owned, { member_id: payload.memberId });
  });
  consumer.on(consumer.events.REBALANCING, revoke);
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
    await commit(consumer, Number(offset), metadata);
  }
  process.exit(1); // Whatever started the process has ended.
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
