import { expect, test } from "bun:test";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { loginFiles, readNodeLogins } from "./docker-config.ts";

const files = loginFiles("/var/lib/kubelet", "/work", "/root");
const login = (username: string) => ({ "r.example": { username, password: "p" } });

async function machineWith(contents: Readonly<Record<string, unknown>>) {
  const machine = new FakeDisk(() => 0).at("/");
  for (const [path, content] of Object.entries(contents)) {
    const at = path.lastIndexOf("/");
    if (at > 0) await machine.makeFolder(path.slice(1, at), 0o755);
    await machine.write(path.slice(1), typeof content === "string" ? content : JSON.stringify(content), 0o600);
  }
  const logins = await readNodeLogins(machine, files);
  return logins.map(([, { username }]) => username);
}

test("the kubelet's places are looked at in its order", () => {
  expect(files.map(([path]) => path)).toEqual([
    "/var/lib/kubelet/config.json",
    "/work/config.json",
    "/root/.docker/config.json",
    "/.docker/config.json",
    "/var/lib/kubelet/.dockercfg",
    "/work/.dockercfg",
    "/root/.dockercfg",
    "/.dockercfg",
  ]);
  expect(loginFiles("/r", undefined, undefined).map(([path]) => path)).toEqual([
    ...["/r/config.json", "/.docker/config.json", "/r/.dockercfg", "/.dockercfg"],
  ]);
});

test("an agent that was started in / finds its file there", async () => {
  const machine = new FakeDisk(() => 0).at("/");
  await machine.write("config.json", JSON.stringify({ auths: login("here") }), 0o600);
  expect(await readNodeLogins(machine, loginFiles("/r", "/", undefined))).toHaveLength(1);
});

const rows: readonly [sentence: string, contents: Readonly<Record<string, unknown>>, usernames: readonly string[]][] = [
  ["no file is no login", {}, []],
  [
    "the first that is there counts, alone",
    { "/root/.docker/config.json": { auths: login("home") }, "/.docker/config.json": { auths: login("root") } },
    ["home"],
  ],
  [
    "the older kind counts last",
    { "/var/lib/kubelet/.dockercfg": login("old"), "/.docker/config.json": { auths: login("new") } },
    ["new"],
  ],
  ["and counts where there is no other", { "/.dockercfg": login("old") }, ["old"]],
  [
    "one that cannot be read is passed over",
    { "/var/lib/kubelet/config.json": "{", "/work/config.json": { auths: login("next") } },
    ["next"],
  ],
];
for (const [sentence, contents, usernames] of rows)
  test(sentence, async () => {
    expect(await machineWith(contents)).toEqual([...usernames]);
  });
