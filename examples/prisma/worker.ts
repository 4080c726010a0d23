import { createInterface } from "node:readline";
import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "./generated/client.ts";
import { SettlementService } from "./settlement.service.ts";

// The worker obeys the lines that it reads: "hold MS TIMEOUT" settles for MS milliseconds, in a transaction with that
// time-out (0: the default). It says "holding", and then "settled", "skipped", or "failed: why".
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });

async function hold(ms: number, timeout: number): Promise<string> {
  const service = new SettlementService(prisma, async (tx) => {
    console.log("holding");
    await new Promise((done) => setTimeout(done, ms));
    await tx.settlement.create({ data: { by: "the worker" } });
  }, timeout || undefined);
  try {
    return (await service.settlement()) ? "settled" : "skipped";
  } catch (e) {
    const text = String(e instanceof Error ? e.message : e).replace(/\s+/g, " ");
    return "failed: " + (/A query cannot be executed on an expired transaction|Transaction already closed[^.]*|expired transaction[^.]*/.exec(text)?.[0] ?? text);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [, ms, timeout] = line.split(" ");
  console.log(await hold(Number(ms), Number(timeout)));
}
await prisma.$disconnect();
