// Command franz is a member of a Kafka group, of the library franz-go.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/tests/kafka_go/member"
)

var assignors = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// Owned are the partitions of the member; callbacks and commands use them.
type Owned struct {
	sync.Mutex
	partitions map[member.Partition]bool
}

func main() {
	arguments := member.ReadArguments()
	owned := &Owned{partitions: map[member.Partition]bool{}}
	client, err := kgo.NewClient(options(arguments, owned)...)
	member.Check(err)
	go poll(client)
	member.Obey(func(offset int64, metadata string) { commit(client, owned.list(), offset, metadata) })
	client.CloseAllowingRebalance()
	member.Report(member.Event{Event: "left"})
}

func options(arguments member.Arguments, owned *Owned) []kgo.Opt {
	own := arguments.Options
	all := []kgo.Opt{
		kgo.SeedBrokers(arguments.Brokers...),
		kgo.ClientID(own.ClientID),
		kgo.ConsumerGroup(arguments.GroupID),
		kgo.ConsumeTopics(arguments.Topics...),
		kgo.Balancers(assignors[own.Assignor]),
		kgo.SessionTimeout(time.Duration(own.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(own.HeartbeatIntervalMs) * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(owned.assigned),
		kgo.OnPartitionsRevoked(owned.revoked),
		kgo.OnPartitionsLost(owned.revoked),
	}
	if own.GroupInstanceID != "" {
		all = append(all, kgo.InstanceID(own.GroupInstanceID))
	}
	return all
}

// poll lets the library consume, without end.
func poll(client *kgo.Client) {
	for !client.PollFetches(context.Background()).IsClientClosed() {
	}
}

func commit(client *kgo.Client, partitions []member.Partition, offset int64, metadata string) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range partitions {
		if offsets[each.Topic] == nil {
			offsets[each.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[each.Topic][each.Number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
		for topic := range request.Topics {
			for partition := range request.Topics[topic].Partitions {
				request.Topics[topic].Partitions[partition].Metadata = &metadata
			}
		}
		return nil
	})
	event := member.Event{Event: "committed", Partitions: partitions, Offset: offset, Metadata: metadata}
	client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if errors.Join(err, refusal(response)) != nil {
			event.Event = "commit_failed"
		}
	})
	member.Report(event)
}

// refusal returns the error of a partition that was not committed.
func refusal(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (owned *Owned) assigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	owned.set(added, true)
	memberID, generation := client.GroupMetadata()
	event := member.Event{Event: "assigned", Partitions: owned.list(), MemberID: memberID, Generation: generation}
	member.Report(event)
}

func (owned *Owned) revoked(_ context.Context, _ *kgo.Client, removed map[string][]int32) {
	member.Report(member.Event{Event: "revoked", Partitions: owned.set(removed, false)})
}

// set adds or removes partitions, and returns them.
func (owned *Owned) set(topics map[string][]int32, isOwned bool) (changed []member.Partition) {
	owned.Lock()
	defer owned.Unlock()
	for topic, numbers := range topics {
		for _, number := range numbers {
			partition := member.Partition{Topic: topic, Number: number}
			changed = append(changed, partition)
			if isOwned {
				owned.partitions[partition] = true
			} else {
				delete(owned.partitions, partition)
			}
		}
	}
	return changed
}

func (owned *Owned) list() (partitions []member.Partition) {
	owned.Lock()
	defer owned.Unlock()
	for partition := range owned.partitions {
		partitions = append(partitions, partition)
	}
	return partitions
}
