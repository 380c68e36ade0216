import { expect, test } from "bun:test";
import { dependenciesOf } from "./initrd.ts";

const module = (metadata: string) => new TextEncoder().encode(`ELF\0license=GPL\0${metadata}\0retpoline=Y\0`);

test.each([
  ["the named modules, in the spelling of loaded modules", "depends=stp,crc32c-intel", ["stp", "crc32c_intel"]],
  ["none for an empty list", "depends=", []],
  ["none without the field", "name=depends", []],
])("dependenciesOf returns %s", (_, metadata, expected) => {
  expect(dependenciesOf(module(metadata))).toEqual(expected);
});
