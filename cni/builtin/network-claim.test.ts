import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeLock } from "../../host/lock.ts";
import { checkClaim, claimNetwork, findOtherOwner, removeRecord } from "./network-claim.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "berth-claim-"));
  for (const name of ["mine", "theirs"]) mkdirSync(at(name));
  symlinkSync("mine", at("link-to-mine"));
});
afterEach(() => rmSync(root, { recursive: true }));
const at = (path: string) => join(root, path);
const folder = () => at("run/pods");
const claimFile = () => join(folder(), "claimed-by");

/** A network that a cache has claimed before; undefined for one that none has. */
function claimedBy(owner: string | undefined): void {
  if (owner === undefined) return;
  mkdirSync(folder(), { recursive: true });
  symlinkSync(at(owner), claimFile());
}

const outcomeOf = (work: () => unknown): string => {
  try {
    work();
    return "done";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
};

test.each<[string | undefined, { claim: string; check: string; other: string | undefined; owner: string }]>([
  [undefined, { claim: "done", check: "done", other: undefined, owner: "mine" }],
  ["mine", { claim: "done", check: "done", other: undefined, owner: "mine" }],
  ["mine/", { claim: "done", check: "done", other: undefined, owner: "mine/" }],
  ["link-to-mine", { claim: "done", check: "done", other: undefined, owner: "link-to-mine" }],
  ["theirs", { claim: "106", check: "50", other: "theirs", owner: "theirs" }],
  ["gone", { claim: "done", check: "done", other: undefined, owner: "mine" }],
])("a network that belongs to %s, and a call with the cache mine", (owner, expected) => {
  claimedBy(owner);
  const check = outcomeOf(() => checkClaim(folder(), "pods", at("mine")));
  const other = findOtherOwner(folder(), at("mine"));
  // Neither of them changes anything.
  expect(existsSync(folder())).toBe(owner !== undefined);
  const claim = outcomeOf(() => claimNetwork(folder(), "pods", at("mine")));
  expect({ claim, check, other, owner: readlinkSync(claimFile()) }).toEqual({
    ...expected,
    other: expected.other && at(expected.other),
    owner: at(expected.owner),
  });
  expect(readdirSync(folder())).toEqual(["claimed-by"]);
});

test("the refusal names the file, both caches, and what to do", () => {
  claimedBy("theirs");
  expect(() => claimNetwork(folder(), "pods", at("mine"))).toThrow(
    `the built-in network pods belongs to the cache ${at("theirs")}, as ${folder()}/claimed-by says, and this call has the cache ${at("mine")}. ` +
      "Give one of the two networks another name, bridge and ranges by a list of its own, " +
      `or remove this one by berth cni uninstall --cache-dir ${at("theirs")}; to call berth cni by hand, add --cache-dir ${at("theirs")}`,
  );
});

test("a look does not propose the removal, since the network may be in use", () => {
  claimedBy("theirs");
  expect(() => checkClaim(folder(), "pods", at("mine"))).toThrow(
    new RegExp(
      `and this call has the cache ${at("mine")}\\. Give one .+ a list of its own; to call berth cni by hand, add --cache-dir ${at("theirs")}$`,
    ),
  );
});

test("the claim of a cache that is gone is replaced by one process at a time, also after one that was killed", () => {
  claimedBy("gone");
  symlinkSync("left", `${claimFile()}.tmp`);
  const lock = takeLock(`${claimFile()}.lock`, "pid 1");
  expect(outcomeOf(() => claimNetwork(folder(), "pods", at("mine")))).toBe("11");
  if (lock.held) lock.release();
  claimNetwork(folder(), "pods", at("mine"));
  expect(readlinkSync(claimFile())).toBe(at("mine"));
  expect(readdirSync(folder())).toEqual(["claimed-by"]);
});

test("what another program has put in place of the claim is a failure", () => {
  mkdirSync(folder(), { recursive: true });
  writeFileSync(claimFile(), "");
  expect(outcomeOf(() => claimNetwork(folder(), "pods", at("mine")))).toBe("EINVAL");
});

test("a record is removed with its claim, and again without effect", () => {
  claimedBy("mine");
  mkdirSync(join(folder(), "addresses"));
  writeFileSync(join(folder(), "addresses/10.88.0.2"), "");
  for (let time = 0; time < 2; time++) removeRecord(folder());
  expect(existsSync(folder())).toBe(false);
});
