package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// Answer is what a pod answers to every HTTP request, as JSON.
type Answer struct {
	Node   string `json:"node"`
	Pod    string `json:"pod"`
	Client string `json:"client"` // the address that the request came from
}

type ports struct{ tcp, udp []int32 }

// server is what runs in a pod: HTTP on its TCP ports, an echo on its UDP ports.
type server struct{ closers []io.Closer }

func serve(namespace string, p ports, who Answer) (*server, error) {
	s := new(server)
	for _, port := range p.tcp {
		l, err := netns.Listen(namespace, fmt.Sprintf(":%d", port))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		web := &http.Server{Handler: answer(who)}
		s.closers = append(s.closers, web)
		go web.Serve(l)
	}
	for _, port := range p.udp {
		c, err := netns.ListenPacket(namespace, fmt.Sprintf(":%d", port))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.closers = append(s.closers, c)
		go echo(c)
	}
	return s, nil
}

// LastsParameter is the parameter of a request's URL that says for how long its answer is to
// be sent, bit by bit: "200ms". At most it is maxLasts.
const LastsParameter = "lasts"

const (
	maxLasts = time.Second
	bit      = 5 * time.Millisecond
)

func answer(who Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply := who
		reply.Client, _, _ = net.SplitHostPort(r.RemoteAddr)
		w.Header().Set("Content-Type", "application/json")
		if d, err := time.ParseDuration(r.URL.Query().Get(LastsParameter)); err == nil {
			pad(w, min(d, maxLasts))
		}
		json.NewEncoder(w).Encode(reply) // a client that has gone away wants no answer
	}
}

// pad sends blanks, which JSON allows, for so long. The client acknowledges each.
func pad(w http.ResponseWriter, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(bit) {
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
	}
}

func echo(c net.PacketConn) {
	if socket, ok := c.(syscall.Conn); ok {
		_ = netns.MakeRoom(socket) // without it, what is lost is counted all the same
	}
	buffer := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.WriteTo(buffer[:n], from)
		}
	}
}

// close ends all that serves; a second time there is nothing to do.
func (s *server) close() error {
	var err error
	for _, c := range s.closers {
		err = errors.Join(err, c.Close())
	}
	s.closers = nil
	return err
}
