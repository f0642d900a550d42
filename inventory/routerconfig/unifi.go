package routerconfig

// writeUniFi writes a file to be uploaded under Settings, Routing, BGP: UniFi
// gateways run FRR and take its language, in one file that is loaded whole.
func writeUniFi(page *page, side *side, options Options) {
	side.note("Upload it under Settings, Routing, BGP. A file takes the place of the one before, so add what else the gateway is to know of BGP.")
	if len(side.profiles()) > 0 {
		side.note("The machines use BFD: see that the gateway runs bfdd, or set bfd: off for this router in the inventory.")
	}
	options.Standalone = false // the gateway writes the rest itself
	writeFRR(page, side, options)
}
