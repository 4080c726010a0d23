import { PrismaClient } from "./generated/client.ts";
import { lockKey } from "./key.ts";

const SETTLEMENT_LOCK_KEY = lockKey("daily-settlement"); // Go: sqllock.Name("daily-settlement")

type Transaction = Parameters<Parameters<PrismaClient["$transaction"]>[0]>[0];

// SettlementService is what a NestJS provider would be: @Injectable(), with @Cron("0 0 * * *") on settlement.
export class SettlementService {
  constructor(
    private readonly prisma: PrismaClient,
    private readonly settle: (tx: Transaction) => Promise<void>,
    private readonly timeout?: number, // in ms; Prisma's default is 5,000
  ) {}

  // settlement returns false if another process holds the lock: another worker, or a Go replica.
  async settlement(): Promise<boolean> {
    return this.prisma.$transaction(async (tx) => {
      const [row] = await tx.$queryRaw<{ locked: boolean }[]>`
        SELECT pg_try_advisory_xact_lock(${SETTLEMENT_LOCK_KEY}::bigint) AS locked`;
      if (!row?.locked) return false;
      await this.settle(tx);
      return true;
    }, this.timeout === undefined ? {} : { timeout: this.timeout });
  }
}
