// Package aimock tests both model adapters over real HTTP against an independent mock server that
// nobody of this project wrote: @copilotkit/aimock, run with node on the loopback.
package aimock
