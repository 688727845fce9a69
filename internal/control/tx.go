package control

import (
	"iter"
	"time"
)

// Tx is one run's records inside one transaction of the host. Keys are short ASCII words with
// slashes; List gives the keys that begin with prefix and sort after the key `after` ("" for all),
// in byte order. Values a Tx returns must not be changed. All writes of a Tx become durable
// together, or none of them when the decision returns an error.
type Tx interface {
	Get(key string) ([]byte, bool, error)
	Put(key string, value []byte) error
	Delete(key string) error
	List(prefix, after string, limit int) iter.Seq2[Record, error]
}

// Record is one key and its value.
type Record struct {
	Key   string
	Value []byte
}

// Env is what the core may not take for itself: the moment and randomness of one call.
type Env struct {
	Now     time.Time
	Entropy [64]byte // fresh for every call
}
