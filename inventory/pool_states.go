package inventory

// PoolState says what may be done with a pool's addresses.
type PoolState string

// The states of a pool.
const (
	PoolActive   PoolState = "active"
	PoolDraining PoolState = "draining" // gives no new VIP
	PoolDisabled PoolState = "disabled" // gives none and is withdrawn
)
