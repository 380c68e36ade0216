import { expect, test } from "bun:test";
import { dependenciesOf } from "./image.ts";

const module = (said: string) => new TextEncoder().encode(`ELF\0license=GPL\0${said}\0retpoline=Y\0`);

test.each([
  [
    "those that it names, by the names they have once they are loaded",
    "depends=stp,crc32c-intel",
    ["stp", "crc32c_intel"],
  ],
  ["none", "depends=", []],
  ["none where it says nothing", "name=depends", []],
])("the modules that one needs: %s", (_, said, expected) => {
  expect(dependenciesOf(module(said))).toEqual(expected);
});
