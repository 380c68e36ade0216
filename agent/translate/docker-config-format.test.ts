import { expect, test } from "bun:test";
import { parseDockerConfig, type RegistryCredentials } from "./docker-config-format.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");

const files: readonly [sentence: string, text: string, logins: RegistryCredentials][] = [
  ["an empty object has no credentials", "{}", []],
  [
    "a password may contain colons",
    `{"auths":{"r":{"auth":"${base64("u:p:w")}"}}}`,
    [["r", { username: "u", password: "p:w" }]],
  ],
  [
    "auth overrides username and password",
    `{"auths":{"r":{"username":"x","password":"y","auth":"${base64("u:p")}"}}}`,
    [["r", { username: "u", password: "p" }]],
  ],
  [
    "username and password may be separate fields",
    '{"auths":{"r":{"username":"x","password":"y","email":"e"}}}',
    [["r", { username: "x", password: "y", email: "e" }]],
  ],
];
for (const [sentence, text, logins] of files)
  test(`${sentence}`, () => {
    expect(parseDockerConfig(text, "config.json")).toEqual(logins);
  });
