package jobs_test

func replicaMain(string) int { return 2 }
