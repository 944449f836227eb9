// Package member is what members of a Kafka group share: commands come on the input, events go to the output.
//
// Arguments, commands and events are those of tests/support/kafka_member.py, without the library.
package member

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Partition is a partition of a topic; as JSON it is [topic, partition].
type Partition struct {
	Topic  string
	Number int32
}

// MarshalJSON encodes a partition as a pair.
func (partition Partition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{partition.Topic, partition.Number})
}

// Options are those of a library, by common names.
type Options struct {
	ClientID            string `json:"client_id"`
	SessionTimeoutMs    int    `json:"session_timeout_ms"`
	HeartbeatIntervalMs int    `json:"heartbeat_interval_ms"`
	Assignor            string `json:"assignor"`
	GroupInstanceID     string `json:"group_instance_id"`
}

// Arguments say which group is joined, and how.
type Arguments struct {
	Brokers []string
	GroupID string
	Topics  []string
	Options Options
}

// Event is one line of the output. A commit has an offset; an assignment has the member's id and generation.
type Event struct {
	AtMs       int64       `json:"at_ms"`
	Event      string      `json:"event"`
	Partitions []Partition `json:"partitions"`
	MemberID   string      `json:"member_id,omitempty"`
	Generation int32       `json:"generation,omitempty"`
	Offset     int64       `json:"offset"`
	Metadata   string      `json:"metadata"`
}

var output sync.Mutex

// ReadArguments returns the arguments of the program: BOOTSTRAP GROUP TOPICS OPTIONS.
func ReadArguments() Arguments {
	options := Options{SessionTimeoutMs: 10_000, HeartbeatIntervalMs: 300, Assignor: "range"}
	Check(json.Unmarshal([]byte(os.Args[4]), &options))
	return Arguments{strings.Split(os.Args[1], ","), os.Args[2], strings.Split(os.Args[3], ","), options}
}

// Report writes an event, with the present time and its partitions in order.
func Report(event Event) {
	output.Lock()
	defer output.Unlock()
	event.AtMs = time.Now().UnixMilli()
	event.Partitions = slices.SortedFunc(slices.Values(event.Partitions), func(one, other Partition) int {
		return cmp.Or(strings.Compare(one.Topic, other.Topic), cmp.Compare(one.Number, other.Number))
	})
	if event.Partitions == nil {
		event.Partitions = []Partition{}
	}
	line, err := json.Marshal(event)
	Check(err)
	fmt.Println(string(line))
}

// Obey calls commit for each command to commit, and returns at the command to leave. The process ends with its input.
func Obey(commit func(offset int64, metadata string)) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, offset, metadata := "", int64(0), ""
		fmt.Sscan(lines.Text(), &command, &offset, &metadata)
		if command == "leave" {
			return
		}
		commit(offset, metadata)
	}
	os.Exit(1)
}

// Check ends the process if something that has to work does not.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
