package sqlite

import (
	"context"
	"fmt"
)

// SetVersionForTest pretends that another program wrote the file. Nothing else may use the store.
func (s *Store) SetVersionForTest(ctx context.Context, n int) error {
	_, err := s.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", n))
	return err
}
