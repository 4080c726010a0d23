import { createHash } from "node:crypto";

// lockKey is the bigint under which sqllock.Name(name) and sqllock.Namespace(namespace).Name(name) lock in PostgreSQL.
// It is plain JavaScript, too: the types come from the defaults.
export function lockKey(name = "", namespace = "") {
  const hash = createHash("sha256");
  if (namespace !== "") hash.update(createHash("sha256").update(namespace, "utf8").digest());
  return hash.update(name, "utf8").digest().readBigInt64BE(0);
}
