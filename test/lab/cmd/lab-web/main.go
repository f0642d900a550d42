// Command lab-web is what a web pod runs on a real machine: it answers as the pods
// of the lab's own kubelet do, and serves on for a while after SIGTERM.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/kubelet"
)

func main() {
	linger := flag.Duration("linger", 2*time.Second, "how long to serve on after SIGTERM")
	delay := flag.Duration("delay", 0, "how long it takes to be ready")
	port := flag.Int("port", 8080, "of HTTP over TCP, and of an echo over UDP")
	flag.Parse()
	if err := run(*port, *delay, *linger); err != nil {
		fmt.Fprintln(os.Stderr, "lab-web:", err)
		os.Exit(1)
	}
}

func run(port int, delay, linger time.Duration) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	time.Sleep(delay)
	address := fmt.Sprintf(":%d", port)
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	go kubelet.Echo(udp)
	go http.Serve(tcp, kubelet.Handler(kubelet.Answer{Node: os.Getenv("NODE_NAME"), Pod: os.Getenv("POD_NAME")}))
	<-stop
	time.Sleep(linger)
	return nil
}
