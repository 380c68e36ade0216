/** The user of an image as ImageStatus reports it: a number, a name, or neither, which means root. */
export interface ImageUser {
  readonly uid: number | undefined;
  readonly username: string;
}
