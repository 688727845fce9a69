// Package workspace makes the disposable tree a run works in, turns what happened there into a
// patch, and brings a patch back into the user's checkout. It is the only package that starts git.
//
// Two git directories stand in a run's folder, both borrowing the user's objects by alternates:
// the ledger, which only the host uses, and the agent's repository, a private bare one of which the
// tree is a real worktree. The host never finds git through the tree: every call names the
// ledger, its own configuration and an index of its own, so nothing that an agent or a repository
// plants (hooks, filters, fsmonitor, textconv, a rewritten .git) is ever run.
//
// Trees are read by descriptors that do not follow links. What git must read of a hostile tree is
// first copied into a staging folder of the host. Goroutines end before the call that started them.
package workspace
