import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { busyboxImage } from "../../bed/images/images.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import type { KubectlClient, StreamingProtocol } from "../cluster/kubectl-client.ts";
import { type StreamingCluster, startStreamingCluster } from "../cluster/streaming-cluster.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("100 MB by kubectl, and the shell of a node");
const SIZE = 100_000_000;
const CLIENTS: readonly (readonly [KubectlVersion, StreamingProtocol])[] = [
  ["1.36", "WebSockets"],
  ["1.36", "SPDY"],
  ["1.32", "WebSockets"],
  ["1.32", "SPDY"],
];
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

describe.skipIf(skip !== undefined)("kubectl", () => {
  let cluster: StreamingCluster;
  beforeAll(async () => {
    cluster = await startStreamingCluster();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  for (const [version, protocol] of CLIENTS)
    describe(`of version ${version} by ${protocol}`, () => {
      let kubectl: KubectlClient;
      beforeAll(async () => {
        kubectl = await cluster.client(version, protocol);
      });

      test("cp copies 100 MB both ways: the pod and the client compute the same checksum", async () => {
        const [here, back] = [join(cluster.folder, "sent"), join(cluster.folder, "back")];
        const sent = randomBytes(SIZE);
        await writeFile(here, sent);
        expect(await kubectl.run(["cp", here, "web:/tmp/copied"])).toMatchObject({ exitCode: 0 });
        const { stdout } = await kubectl.run(["exec", "web", "--", "sha256sum", "/tmp/copied"]);
        expect(stdout).toBe(`${sha256(sent)}  /tmp/copied\n`);
        expect(await kubectl.run(["cp", "web:/tmp/copied", back])).toMatchObject({ exitCode: 0 });
        expect(sha256(await readFile(back))).toBe(sha256(sent));
        await kubectl.run(["exec", "web", "--", "rm", "/tmp/copied"]);
        for (const file of [here, back]) await rm(file);
      });

      test("exec -i passes 100 MB of stdin and its end", async () => {
        const sent = randomBytes(SIZE);
        const { stdout, exitCode } = await kubectl.run(["exec", "-i", "web", "--", "sha256sum"], sent);
        expect([stdout, exitCode]).toEqual([`${sha256(sent)}  -\n`, 0]);
      });

      test("exec -i returns 100 MB as they were sent", async () => {
        const sent = randomBytes(SIZE);
        const child = kubectl.start(["exec", "-i", "web", "--", "cat"], sent);
        const [stdout, exitCode] = await Promise.all([child.stdout.bytes(), child.exited]);
        expect([sha256(stdout), exitCode]).toEqual([sha256(sent), 0]);
      });
    });

  for (const version of ["1.36", "1.32"] as const)
    test(`debug of version ${version} opens a shell in the namespaces of the node`, async () => {
      const kubectl = await cluster.client(version, "WebSockets");
      const options = [`--image=${busyboxImage}`, "--profile=general"];
      const terminal = kubectl.startInTerminal(["debug", "-it", `node/${cluster.node.name}`, ...options], 120, 40);
      await terminal.sees("If you don't see a command prompt, try pressing enter.");
      terminal.type("\r");
      await terminal.sees("/ #");
      // What the terminal echoes has the quotes.
      const sees = `[ -d /proc/${process.pid} ] && [ -d /host${cluster.folder} ] && echo "processes" and files`;
      terminal.type(`${sees}; exit\r`);
      await terminal.sees("processes and files");
      expect(await terminal.exited).toBe(0);
      await cluster.kubectl("delete", "pod", "--selector=app.kubernetes.io/managed-by=kubectl-debug", "--timeout=180s");
    });
});
