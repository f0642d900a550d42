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
// No function of GoBGP's gives access to the queue. So it is looked up among what GoBGP does
// not export, and emptied once the server has stopped. TestNothingIsLeftOfASessionThatWasLost
// holds that, and TestTheQueueOfAPeerIsFound that a version of GoBGP still has it there.

// queueOf finds the queue of a server's only peer; nil: it is not where it was.
func queueOf(b *server.BgpServer) *channels.InfiniteChannel {
	peers := reflect.ValueOf(b).Elem().FieldByName("neighborMap")
	if peers.Kind() != reflect.Map || peers.Len() != 1 {
		return nil
	}
	v := peers.MapIndex(peers.MapKeys()[0])
	for _, field := range []string{"fsm", "outgoingCh"} {
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return nil
		}
		if v = v.Elem().FieldByName(field); !v.IsValid() {
			return nil
		}
	}
	if v.Type() != reflect.TypeFor[*channels.InfiniteChannel]() {
		return nil
	}
	return (*channels.InfiniteChannel)(v.UnsafePointer())
}

// empty takes out of a queue that was closed what is left in it.
func empty(q *channels.InfiniteChannel) {
	if q == nil {
		return
	}
	for range q.Out() {
		continue
	}
}
