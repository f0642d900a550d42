// Package rollouts measures how many new connections are lost while pods are rolled, scaled
// and drained, with Plinth and with MetalLB v0.15.2, which take turns in one run:
//
//	go test -C test -count=1 -run '^$' -bench . -benchtime 1x -timeout 1h ./bench/rollouts
//	go test -C test ... ./bench/rollouts -args -proxy-mode=iptables
//	go test -C test ... -bench DualStack ./bench/rollouts -args -rounds=5 -real -router=bird
//
// It is the story of test/e2e (lab.Rollouts), on four machines of one rack behind FRR and
// BIRD, with pod routes that are neither's. MetalLB runs in native BGP mode, which announces
// IPv4 alone; so do both. A connection counts as lost that was not answered within half a
// second: a SYN was sent again.
package rollouts
