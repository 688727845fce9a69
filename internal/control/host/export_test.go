package host

// OpenSocketForTest opens the socket before the first run does.
func (s *Service) OpenSocketForTest() error { return s.accepting() }
