package jobs_test

const roleEnv = "SQLLOCK_JOBS_ROLE"

func play(role string) int { return 2 }
