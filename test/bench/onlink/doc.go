// Package onlink measures how VIPs on the link fare with Plinth and with MetalLB v0.15.2 in its
// L2 mode, one after the other in one run:
//
//	go test -C test -count=1 -run '^$' -bench . -benchtime 1x -timeout 1h ./bench/onlink
//	go test -C test ... ./bench/onlink -args -machines=5 -vips=50 -only=metallb
//
// Stories that only Plinth's agents can tell run when they are named:
//
//	go test -C test ... ./bench/onlink -args -only=plinth -stories=idle -machines=5 -idle=10m
//	go test -C test ... ./bench/onlink -args -only=plinth -stories=hostile
//	go test -C test ... ./bench/onlink -args -only=plinth -stories=split -split=10m
//	go test -C test ... ./bench/onlink -args -only=plinth -stories=many
//
// The lab is a home: machines, a phone and a laptop on one subnet, and a router that speaks no
// BGP. What Services lead to runs on the router, which no measurement harms, so that what is lost
// is lost for want of an answer on the link alone. A gap is the longest row of lost packets of a
// phone that sends 1,000 a second; a machine's power is cut, so nobody is told.
package onlink
