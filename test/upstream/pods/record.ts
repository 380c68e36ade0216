/**
 * Records how a running API server defaults the pods of good.ts and rejects those of bad.ts. Sends them as dry runs and
 * writes the responses to test/golden/pod-defaults.json and test/golden/pod-errors.json:
 *
 *   KUBE_TOKEN=… bun test/upstream/pods/record.ts https://127.0.0.1:6443
 *
 * The server must run without the admission plugins that change or reject pods (--disable-admission-plugins
 * ServiceAccount,Priority,DefaultTolerationSeconds,RuntimeClass), and with --allow-privileged.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Pod, Status, StatusCause } from "../../../proto/kubernetes/gen/types.ts";
import { badPods } from "./bad.ts";
import { goodPods } from "./good.ts";

const golden = join(import.meta.dir, "../../golden");

async function post(server: string, pod: unknown): Promise<unknown> {
  const response = await fetch(
    `${server}/api/v1/namespaces/default/pods?dryRun=All&fieldManager=test&fieldValidation=Strict`,
    {
      method: "POST",
      headers: { Authorization: `Bearer ${process.env["KUBE_TOKEN"] ?? ""}`, "Content-Type": "application/json" },
      body: JSON.stringify(pod),
      tls: { rejectUnauthorized: false },
    },
  );
  return response.json();
}

function write(name: string, rows: readonly unknown[]): void {
  writeFileSync(join(golden, name), `[\n${rows.map((row) => JSON.stringify(row)).join(",\n")}\n]\n`);
}

async function recordDefaults(server: string): Promise<void> {
  const rows: unknown[] = [];
  for (const [name, pod] of Object.entries(goodPods)) {
    const answer = (await post(server, pod)) as Pod | Status;
    if (answer.kind !== "Pod") throw new Error(`${name}: ${(answer as Status).message}`);
    rows.push({ name, pod, spec: (answer as Pod).spec });
  }
  write("pod-defaults.json", rows);
}

/** Sorts the causes, because the server iterates over maps and returns them in random order. */
function sorted(causes: readonly StatusCause[]): readonly StatusCause[] {
  return causes.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

async function recordErrors(server: string): Promise<void> {
  const rows: unknown[] = [];
  for (const [name, pod] of Object.entries(badPods)) {
    const answer = (await post(server, pod)) as Pod | Status;
    if (answer.kind !== "Status") {
      rows.push({ name, pod, accepted: true });
      continue;
    }
    const { reason, message, details } = answer;
    rows.push({
      name,
      pod,
      reason,
      ...(details?.causes === undefined ? { message } : { causes: sorted(details.causes) }),
    });
  }
  write("pod-errors.json", rows);
}

const server = process.argv[2];
if (server === undefined) throw new Error("usage: KUBE_TOKEN=… bun test/upstream/pods/record.ts <server URL>");
await recordDefaults(server);
await recordErrors(server);
