// Command kafka-go is a member of a Kafka group, of the library segmentio/kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/tests/kafka_go/member"
)

// The library gives up its member id after each error. The group waits for the old member as long as a rebalance may take.
const rebalanceTimeout = 5 * time.Second

// Current is the generation that the member is in, with its partitions.
type Current struct {
	sync.Mutex
	generation *kafka.Generation
	partitions []member.Partition
}

func main() {
	arguments := member.ReadArguments()
	own := arguments.Options
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                arguments.GroupID,
		Brokers:           arguments.Brokers,
		Topics:            arguments.Topics,
		Dialer:            &kafka.Dialer{ClientID: own.ClientID},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		SessionTimeout:    time.Duration(own.SessionTimeoutMs) * time.Millisecond,
		HeartbeatInterval: time.Duration(own.HeartbeatIntervalMs) * time.Millisecond,
		RebalanceTimeout:  rebalanceTimeout,
		JoinGroupBackoff:  time.Second,
	})
	member.Check(err)
	current := &Current{}
	ended := make(chan struct{})
	go current.follow(group, ended)
	member.Obey(current.commit)
	member.Check(group.Close())
	<-ended
	member.Report(member.Event{Event: "left"})
}

// follow takes part in one generation after the other, until the group is closed.
func (current *Current) follow(group *kafka.ConsumerGroup, ended chan struct{}) {
	defer close(ended)
	for {
		generation, err := group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		current.begin(generation)
		generation.Start(func(ctx context.Context) { <-ctx.Done() })
	}
}

func (current *Current) begin(generation *kafka.Generation) {
	current.Lock()
	defer current.Unlock()
	member.Report(member.Event{Event: "revoked", Partitions: current.partitions})
	current.generation, current.partitions = generation, nil
	for topic, assignments := range generation.Assignments {
		for _, each := range assignments {
			current.partitions = append(current.partitions, member.Partition{Topic: topic, Number: int32(each.ID)})
		}
	}
	member.Report(member.Event{
		Event: "assigned", Partitions: current.partitions, MemberID: generation.MemberID, Generation: generation.ID,
	})
}

// commit commits an offset of each partition; the library has no metadata.
func (current *Current) commit(offset int64, metadata string) {
	current.Lock()
	defer current.Unlock()
	event := member.Event{Event: "commit_failed", Partitions: current.partitions, Offset: offset, Metadata: metadata}
	offsets := map[string]map[int]int64{}
	for _, each := range current.partitions {
		if offsets[each.Topic] == nil {
			offsets[each.Topic] = map[int]int64{}
		}
		offsets[each.Topic][int(each.Number)] = offset
	}
	if current.generation != nil && current.generation.CommitOffsets(offsets) == nil {
		event.Event = "committed"
	}
	member.Report(event)
}
