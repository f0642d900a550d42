package inventory

// PoolState is the use that may be made of a pool's addresses.
type PoolState string

// The states of a pool.
const (
	PoolActive   PoolState = "active"
	PoolDraining PoolState = "draining" // gives no new VIP
	PoolDisabled PoolState = "disabled" // gives none and is withdrawn
)
