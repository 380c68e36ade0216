import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Options of ts-proto's last release for protobufjs: plain readonly objects, no TypeScript enums, int64 as bigint, only
 * what a client needs.
 *
 * @internal
 */
export const codecOptions = [
  "enumsAsLiterals=true",
  "esModuleInterop=true",
  "exportCommonSymbols=false",
  "forceLong=bigint",
  "outputJsonMethods=false",
  "outputServices=none",
  "unrecognizedEnum=false",
  "useDate=false",
  "useExactTypes=false",
  "useReadonlyTypes=true",
];

/**
 * Regenerates the codec of the CRI and of containerd's own services from the `.proto` files of this directory. Removes
 * all other files from the output directory.
 */
export function generateCri(folder: string): void {
  const protoDir = fileURLToPath(new URL(".", import.meta.url));
  const binary = (name: string) => fileURLToPath(new URL(`../../node_modules/.bin/${name}`, import.meta.url));
  const template = {
    version: "v2",
    clean: true,
    plugins: [
      {
        local: binary("protoc-gen-ts_proto"),
        out: folder,
        opt: codecOptions,
      },
    ],
  };
  execFileSync(binary("buf"), ["generate", protoDir, "--template", JSON.stringify(template)], { stdio: "inherit" });
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    writeFileSync(path, withQuickLongs(readFileSync(path, "utf8")));
  }
}

/**
 * Replaces ts-proto's conversion of 64-bit numbers, which goes through their decimal digits and takes a third of the
 * time of decoding a list, by that of `int64.ts`. Removes the versions of the generators.
 */
function withQuickLongs(text: string): string {
  const replaced = text
    .replace(/^\/\/ versions:\n(?:\/\/ {3}.*\n)+/m, "")
    .replace('import Long from "long";', 'import { type Long, longOf, longToBigint } from "../int64.ts";')
    .replace(/(writer\b.*int64\()(.+)\.toString\(\)\);/g, "$1longOf($2));")
    .replace(/\nfunction longToBigint\(long: Long\) \{\n.*\n\}\n/, "")
    .replace(/\nif \(_m0\.util\.Long !== Long\) \{\n(?: .*\n)+\}\n/, "");
  if (/\.toString\(\)\)|"long"|util\.Long/.test(replaced))
    throw new Error("ts-proto's code for 64-bit numbers has changed");
  return replaced;
}
