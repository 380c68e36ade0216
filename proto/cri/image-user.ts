/** The user that an image asks for, as ImageStatus says it: by number, by name, or (neither) root. */
export interface ImageUser {
  readonly uid: number | undefined;
  readonly username: string;
}
