import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { checkCredentialProviders } from "./credential-providers.ts";

let folder: string;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-plugins-")));
});
afterEach(() => rm(folder, { recursive: true }));

const provider = {
  name: "vault",
  matchImages: ["registry.example"],
  defaultCacheDurationMs: 0,
  apiVersion: "credentialprovider.kubelet.k8s.io/v1",
  args: [],
  env: {},
} as const;
const check = () =>
  checkCredentialProviders({ credentialProviders: { binDir: folder, providers: [provider] } }, createFiles("/"));

test("a node without credential providers passes", async () => {
  await checkCredentialProviders({ credentialProviders: undefined }, createFiles("/"));
});

test("an executable file passes", async () => {
  await writeFile(join(folder, "vault"), "");
  await chmod(join(folder, "vault"), 0o755);
  await check();
});

const REMEDY = "install it, or remove it from the file of --image-credential-provider-config";
const refusals: readonly (readonly [sentence: string, prepare: (path: string) => unknown, message: string])[] = [
  ["is missing", () => {}, `a credential provider is missing: PATH does not exist: ${REMEDY}`],
  [
    "is not executable",
    (path) => writeFile(path, ""),
    `a credential provider cannot be run: PATH is not an executable file: ${REMEDY}`,
  ],
  [
    "is a directory",
    (path) => mkdir(path),
    `a credential provider cannot be run: PATH is not an executable file: ${REMEDY}`,
  ],
];
for (const [sentence, prepare, message] of refusals)
  test(`the agent does not start with a plugin that ${sentence}`, async () => {
    const path = join(folder, "vault");
    await prepare(path);
    await expect(check()).rejects.toMatchObject({ name: "StartError", message: message.replace("PATH", path) });
  });
