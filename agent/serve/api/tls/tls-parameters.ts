import type { TlsSettings } from "../api-server.ts";

export interface TlsConfig {
  /** `VersionTLS12`; empty for the default. */
  readonly minVersion: string;
  /** Names of Go's crypto/tls; empty for the default. */
  readonly cipherSuites: readonly string[];
  /** The numbers of TLS's supported groups; empty for the default. */
  readonly curvePreferences: readonly number[];
}

type MinVersion = NonNullable<TlsSettings["minVersion"]>;

/** Older versions than 1.2 have no cipher left that is still considered secure: they are not served. */
const MIN_VERSIONS: Readonly<Record<string, MinVersion>> = { VersionTLS13: "TLSv1.3" };

/** OpenSSL's names of the cipher suites of TLS 1.2; those of 1.3 are always all on, as in Go. */
const CIPHERS: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256",
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305: "ECDHE-RSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: "ECDHE-ECDSA-AES128-SHA",
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: "ECDHE-ECDSA-AES256-SHA",
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: "ECDHE-RSA-AES128-SHA",
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: "ECDHE-RSA-AES256-SHA",
  TLS_RSA_WITH_AES_128_GCM_SHA256: "AES128-GCM-SHA256",
  TLS_RSA_WITH_AES_256_GCM_SHA384: "AES256-GCM-SHA384",
  TLS_RSA_WITH_AES_128_CBC_SHA: "AES128-SHA",
  TLS_RSA_WITH_AES_256_CBC_SHA: "AES256-SHA",
};

/** Groups that the TLS library has; the others are those of Go's post-quantum experiments with other curves. */
const CURVES: Readonly<Record<number, string>> = {
  23: "P-256",
  24: "P-384",
  25: "P-521",
  29: "X25519",
  4588: "X25519MLKEM768",
};

/** What Go's crypto/tls offers by default for TLS 1.2, in its order. */
const DEFAULT_CIPHERS = [
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
];

/**
 * The settings of a TLS server. `unsupported`: the names of suites and the numbers of curves that the library lacks, or that
 * are no longer secure.
 */
export function tlsParametersOf({ minVersion, cipherSuites, curvePreferences }: TlsConfig): {
  readonly settings: Pick<TlsSettings, "minVersion" | "ciphers" | "ecdhCurve" | "honorCipherOrder">;
  readonly unsupported: readonly string[];
} {
  // The names of TLS 1.3 select nothing: all of its suites are on.
  const selected = cipherSuites.filter((name) => !/^TLS_(AES|CHACHA20)_/.test(name));
  const ciphers = [...new Set(selected.flatMap((name) => CIPHERS[name] ?? []))];
  const curves = curvePreferences.flatMap((number) => CURVES[number] ?? []);
  return {
    settings: {
      minVersion: MIN_VERSIONS[minVersion] ?? "TLSv1.2",
      ciphers: (ciphers.length === 0 ? DEFAULT_CIPHERS : ciphers).join(":"),
      honorCipherOrder: true,
      ...(curves.length > 0 && { ecdhCurve: curves.join(":") }),
    },
    unsupported: [
      ...selected.filter((name) => CIPHERS[name] === undefined),
      ...curvePreferences.filter((number) => CURVES[number] === undefined).map((number) => `curve ${number}`),
      ...(minVersion === "VersionTLS10" || minVersion === "VersionTLS11" ? [minVersion] : []),
    ],
  };
}
