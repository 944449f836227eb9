// Command sarama is a member of a Kafka group, of the library sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"muster/tests/kafka_go/member"
)

const retryDelay = 100 * time.Millisecond

var assignors = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

// Handler reports each claim as it begins and ends; commands commit in its session.
type Handler struct {
	sync.Mutex
	claims map[member.Partition]sarama.ConsumerGroupSession
}

func main() {
	arguments := member.ReadArguments()
	client, err := sarama.NewClient(arguments.Brokers, config(arguments.Options))
	member.Check(err)
	group, err := sarama.NewConsumerGroupFromClient(arguments.GroupID, client)
	member.Check(err)
	handler := &Handler{claims: map[member.Partition]sarama.ConsumerGroupSession{}}
	ended := make(chan struct{})
	go consume(group, arguments.Topics, handler, ended)
	member.Obey(func(offset int64, metadata string) { handler.commit(client, arguments.GroupID, offset, metadata) })
	member.Check(group.Close())
	<-ended
	member.Report(member.Event{Event: "left"})
}

func config(options member.Options) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.ClientID = options.ClientID
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.InstanceId = options.GroupInstanceID
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{assignors[options.Assignor]()}
	config.Consumer.Group.Session.Timeout = time.Duration(options.SessionTimeoutMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = time.Duration(options.HeartbeatIntervalMs) * time.Millisecond
	return config
}

// consume joins, and joins again after each rebalance or failure, until the group is closed.
func consume(group sarama.ConsumerGroup, topics []string, handler *Handler, ended chan struct{}) {
	defer close(ended)
	for {
		err := group.Consume(context.Background(), topics, handler)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(retryDelay)
		}
	}
}

// Setup does nothing: claims report themselves.
func (handler *Handler) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup does nothing.
func (handler *Handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim owns a partition until it is revoked.
func (handler *Handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := member.Partition{Topic: claim.Topic(), Number: claim.Partition()}
	handler.set(partition, session)
	member.Report(member.Event{
		Event: "assigned", Partitions: []member.Partition{partition},
		MemberID: session.MemberID(), Generation: session.GenerationID(),
	})
	for range claim.Messages() {
	}
	handler.set(partition, nil)
	member.Report(member.Event{Event: "revoked", Partitions: []member.Partition{partition}})
	return nil
}

func (handler *Handler) set(partition member.Partition, session sarama.ConsumerGroupSession) {
	handler.Lock()
	defer handler.Unlock()
	if session == nil {
		delete(handler.claims, partition)
	} else {
		handler.claims[partition] = session
	}
}

// commit commits an offset of each claim. The library does not return whether it could: the broker is asked.
func (handler *Handler) commit(client sarama.Client, groupID string, offset int64, metadata string) {
	handler.Lock()
	defer handler.Unlock()
	event := member.Event{Event: "committed", Offset: offset, Metadata: metadata}
	for partition, session := range handler.claims {
		session.MarkOffset(partition.Topic, partition.Number, offset, metadata)
		session.Commit()
		event.Partitions = append(event.Partitions, partition)
	}
	if !isCommitted(client, groupID, event) {
		event.Event = "commit_failed"
	}
	member.Report(event)
}

func isCommitted(client sarama.Client, groupID string, event member.Event) bool {
	coordinator, err := client.Coordinator(groupID)
	if err != nil {
		return false
	}
	partitions := map[string][]int32{}
	for _, each := range event.Partitions {
		partitions[each.Topic] = append(partitions[each.Topic], each.Number)
	}
	stored, err := coordinator.FetchOffset(sarama.NewOffsetFetchRequest(client.Config().Version, groupID, partitions))
	if err != nil {
		return false
	}
	for _, each := range event.Partitions {
		block := stored.GetBlock(each.Topic, each.Number)
		if block == nil || block.Offset != event.Offset || block.Metadata != event.Metadata {
			return false
		}
	}
	return true
}
