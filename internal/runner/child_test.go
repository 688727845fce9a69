package runner_test

const childEnv = "RIVUMI_RUNNER_TEST_CHILD"

func childMain(string) int { return 0 }
