/*
 * The parts of a container's view that show its volumes. They look at what is mounted below `/v`, and at the service
 * account's token at its usual path.
 */

/** The timestamped folder of the atomic writer. */
const withoutTime = "sed 's/[.][.]20[0-9_]*[.][0-9]*/..TIME/g'";
const places = "$(ls -d /v /var/run/secrets 2>/dev/null)";
const filesWithContent = `find -L ${places} -name '..*' -prune -o -type f -print | sort`;

/** Sets `claims` to the claims of the token in the file `$f`. */
const readClaims =
  "claims=$(cut -d. -f2 $f | tr -- -_ +/); while [ $(($(echo -n $claims | wc -c) % 4)) -ne 0 ]; do claims=$claims=; done; claims=$(echo $claims | base64 -d)";
const claim = (name: string) => `$(echo "$claims" | sed 's/.*"${name}":\\([0-9]*\\).*/\\1/')`;
/** Claims that differ for each token: its id, its times, and the uids of the node and of the account. */
const withoutIds = [
  's/"jti":"[^"]*"/"jti":"ID"/',
  's/\\("[a-z]*":\\)[0-9]\\{10\\}/\\1TIME/g',
  's/\\("node":{"name":"[^"]*","uid":"\\)[^"]*/\\1ID/',
  's/\\("serviceaccount":{"name":"[^"]*","uid":"\\)[^"]*/\\1ID/',
];

export const volumeScripts = {
  /** Type, mode and owner of every file. */
  files: `find ${places} | sort | while IFS= read -r f; do echo "file $f $(stat -c '%A %u:%g' $f) $(readlink $f)"; done | ${withoutTime}`,
  /** Short texts as they are, others as a hash; certificates and tokens are others on each side. */
  texts: `${filesWithContent} | while IFS= read -r f; do case $f in */token*) continue;; */ca.crt) echo "text $f $(head -n 1 $f)"; continue;; esac; if ! [ -r $f ]; then echo "text $f cannot be read"; elif [ $(wc -c < $f) -gt 300 ] || [ -n "$(tr -d '\\n -~\\200-\\377' < $f)" ]; then echo "text $f of $(wc -c < $f) bytes $(md5sum < $f)"; else echo "text $f $(tr '\\n' '|' < $f)"; fi; done`,
  tokens: `${filesWithContent} | grep /token | while read -r f; do ${readClaims}; echo "token $f lives $((${claim("exp")} - ${claim("iat")})) s: $(echo "$claims" | sed ${withoutIds.map((each) => `-e '${each}'`).join(" ")})"; done`,
  /**
   * Where a mount comes from within its file system, its options, its propagation, its file system and, of a tmpfs, that
   * one's options, without the one that only newer kernels know.
   */
  mountinfo:
    'awk \'$5 ~ "^/v/|/secrets/" { s = ""; for (i = 7; $i != "-"; i++) { sub(/:.*/, "", $i); s = s " " $i }; r = $4; if (r !~ "/pods/") r = "-"; sub(".*/pods/", "", r); o = $(i + 3); if ($(i + 1) != "tmpfs") o = substr(o, 1, 2); sub(",noswap", "", o); print "mountinfo", $5, r, $6 s, $(i + 1), o }\' /proc/self/mountinfo',
  /** What comes of an attempt to make a file in every folder. */
  writes: `for d in $(ls -d /v/*/); do echo "write $d $( (touch \${d}made && stat -c '%A %u:%g' \${d}made && rm \${d}made) 2>&1)"; done`,
} as const;

/** The first word of the facts of each part, of which there is one for each path. */
export const volumeFactKinds = {
  files: "file",
  texts: "text",
  tokens: "token",
  mountinfo: "mountinfo",
  writes: "write",
} as const satisfies Record<keyof typeof volumeScripts, string>;
