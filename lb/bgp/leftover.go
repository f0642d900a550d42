package bgp

import (
	"reflect"

	"github.com/eapache/channels"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// GoBGP v4.8.0 queues what it has yet to send to a peer in a channel with a goroutine of its
// own, which ends once the queue is closed and empty. When a session is lost one more item is
// put there, to wake the goroutine that sends; that goroutine often does not take it, and
// what is left when the peer goes is discarded without waiting for the queue to hand it out:
// goroutine and queue would stay for ever, for every second session that is lost, with all
// that a router that hangs did not take.
//
// No function of GoBGP's gives access to the queue. So it is read from what GoBGP does
// not export, and emptied once the server has stopped. TestNothingIsLeftOfASessionThatWasLost
// holds that, and TestTheQueueOfAPeerIsFound that a version of GoBGP still has it there.

// peerOf finds a server's only peer; the zero Value: it is not where it was.
func peerOf(b *server.BgpServer) reflect.Value {
	peers := reflect.ValueOf(b).Elem().FieldByName("neighborMap")
	if peers.Kind() != reflect.Map || peers.Len() != 1 {
		return reflect.Value{}
	}
	return peers.MapIndex(peers.MapKeys()[0])
}

// fieldOf finds a field through pointers, interfaces and fields; the zero Value: it is not there.
func fieldOf(value reflect.Value, names ...string) reflect.Value {
	for _, name := range names {
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		value = value.FieldByName(name)
	}
	return value
}

// queueOf finds the queue of a peer; nil: it is not where it was.
func queueOf(peer reflect.Value) *channels.InfiniteChannel {
	v := fieldOf(peer, "fsm", "outgoingCh")
	if !v.IsValid() || v.Type() != reflect.TypeFor[*channels.InfiniteChannel]() {
		return nil
	}
	return (*channels.InfiniteChannel)(v.UnsafePointer())
}

// empty drains a queue that was closed.
func empty(q *channels.InfiniteChannel) {
	if q == nil {
		return
	}
	for range q.Out() {
		continue
	}
}
