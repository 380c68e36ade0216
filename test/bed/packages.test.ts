import { expect, test } from "bun:test";
import { cacheFolder, pickMirror } from "./packages.ts";

const targets = `http://mirror.test/debian-security/ bookworm-security main
http://mirror.test/debian/ bookworm-updates main
http://mirror.test/other/ bookworm contrib
http://mirror.test/debian/ bookworm main
`;

test.each([
  [
    "the mirror of the release, not of its updates or another component",
    targets,
    "bookworm",
    "http://mirror.test/debian/",
  ],
  ["no mirror when apt knows only other releases", targets, "trixie", undefined],
  ["no mirror when apt has no sources", "", "bookworm", undefined],
])("pickMirror picks %s", (_, listed, codename, mirror) => {
  expect(pickMirror(listed, codename)).toBe(mirror);
});

test("the cache folder follows XDG_CACHE_HOME", () => {
  expect(cacheFolder({ XDG_CACHE_HOME: "/var/cache/me" })).toBe("/var/cache/me/berth");
  expect(cacheFolder({})).toEndWith("/.cache/berth");
});
