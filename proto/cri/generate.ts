import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** ts-proto's options: plain readonly objects, no TS enums, int64 as bigint, nothing but what a client needs. */
const codecOptions = [
  "enumsAsLiterals=true",
  "esModuleInterop=true",
  "exportCommonSymbols=false",
  "forceLong=bigint",
  "importSuffix=.ts",
  "outputJsonMethods=false",
  "outputServices=none",
  "unrecognizedEnum=false",
  "useDate=false",
  "useExactTypes=false",
  "useReadonlyTypes=true",
  "annotateFilesWithVersion=false",
];

/**
 * Rebuilds the codec of the CRI and of containerd's own services from the `.proto` files beside this one.
 * Whatever else the folder holds is removed.
 */
export function generateCri(folder: string): void {
  const here = fileURLToPath(new URL(".", import.meta.url));
  const program = (name: string) => fileURLToPath(new URL(`../../node_modules/.bin/${name}`, import.meta.url));
  const template = {
    version: "v2",
    clean: true,
    plugins: [
      {
        local: program("protoc-gen-ts_proto"),
        out: folder,
        opt: codecOptions,
      },
    ],
  };
  execFileSync(program("buf"), ["generate", here, "--template", JSON.stringify(template)], { stdio: "inherit" });
}
