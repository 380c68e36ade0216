import { expect, test } from "bun:test";
import { cacheFolder, pickMirror } from "./packages.ts";

const targets = `http://mirror.test/debian-security/ bookworm-security main
http://mirror.test/debian/ bookworm-updates main
http://mirror.test/other/ bookworm contrib
http://mirror.test/debian/ bookworm main
`;

test.each([
  ["the release itself, not its updates or another component", targets, "bookworm", "http://mirror.test/debian/"],
  ["nothing where apt knows only other releases", targets, "trixie", undefined],
  ["nothing where apt has no sources", "", "bookworm", undefined],
])("the mirror is that of %s", (_, listed, codename, mirror) => {
  expect(pickMirror(listed, codename)).toBe(mirror);
});

test("the cache is where XDG says", () => {
  expect(cacheFolder({ XDG_CACHE_HOME: "/var/cache/me" })).toBe("/var/cache/me/berth");
  expect(cacheFolder({})).toEndWith("/.cache/berth");
});
