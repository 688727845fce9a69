// Package host is the native host of the control core: the in-process [Service], the HTTP
// adapter, the queue with its leases, and the bell that wakes followers of a log.
package host
