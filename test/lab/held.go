package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// Held are connections that a client holds open, over each of which it sends a request now and
// then.
type Held struct {
	stop  context.CancelFunc
	conns sync.WaitGroup
	mu    sync.Mutex
	all   []*heldConn
}

type heldConn struct {
	err     error // that ended it
	answers int
	longest time.Duration // until an answer
}

// heldPatience is how long an answer may take over a connection that is held: TCP sends again
// what was lost, in growing distances.
const heldPatience = 10 * time.Second

// Hold opens so many connections from a host to a web server of the lab, and sends a request over
// each of them every so often.
func (l *Lab) Hold(ctx context.Context, host, address string, connections int, every time.Duration) (*Held, error) {
	dialer := netns.NewDialer(l.Namespace(host))
	defer dialer.Close()
	ctx, stop := context.WithCancel(ctx)
	h := &Held{stop: stop}
	for i := range connections {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			h.Stop()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, connections, err)
		}
		one := &heldConn{}
		h.all = append(h.all, one)
		h.conns.Go(func() { h.keep(ctx, conn, one, every) })
	}
	return h, nil
}

func (h *Held) keep(ctx context.Context, conn net.Conn, one *heldConn, every time.Duration) {
	defer conn.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	reader := bufio.NewReader(conn)
	for {
		begun := time.Now()
		err := exchange(conn, reader)
		h.mu.Lock()
		one.err, one.longest = err, max(one.longest, time.Since(begun))
		if err == nil {
			one.answers++
		}
		h.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func exchange(conn net.Conn, reader *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(heldPatience)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: held\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// Stop waits for the requests that are under way, and says how it went.
func (h *Held) Stop() HeldReport {
	h.stop()
	h.conns.Wait()
	return h.Report()
}

// HeldReport is what became of connections that were held.
type HeldReport struct {
	Connections, Broken int
	Answers             int
	Longest             time.Duration // until an answer, over a connection that did not break
	Errors              map[string]int
}

// Report says how it went so far.
func (h *Held) Report() HeldReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := HeldReport{Connections: len(h.all), Errors: map[string]int{}}
	for _, one := range h.all {
		r.Answers += one.answers
		if one.err != nil {
			r.Broken++
			r.Errors[lastWords(one.err)]++
			continue
		}
		r.Longest = max(r.Longest, one.longest)
	}
	return r
}

// Add adds what became of other connections.
func (r *HeldReport) Add(o HeldReport) {
	r.Connections, r.Broken, r.Answers = r.Connections+o.Connections, r.Broken+o.Broken, r.Answers+o.Answers
	r.Longest = max(r.Longest, o.Longest)
	if r.Errors == nil {
		r.Errors = map[string]int{}
	}
	for text, n := range o.Errors {
		r.Errors[text] += n
	}
}

func (r HeldReport) String() string {
	text := fmt.Sprintf("%d connections, %d broken, %d answers, the longest after %s", r.Connections, r.Broken, r.Answers, r.Longest.Round(time.Millisecond))
	if len(r.Errors) > 0 {
		text += "; errors: " + counts(r.Errors)
	}
	return text
}
