export interface VersionRecord {
  readonly name: string;
  /** Null: no app, as DBOS 4 registers versions. */
  readonly appName: string | null;
  readonly createdAt: number;
  /** The instant at which the version last became the latest. The highest value is the latest version. */
  readonly latestAt: number;
}

export interface Versions {
  /** Registers a version and returns the latest one. A new version becomes the latest, unless `asLatest` is false. */
  register(params: {
    readonly name: string;
    readonly appName: string;
    readonly asLatest?: boolean;
    readonly now: number;
  }): Promise<VersionRecord | undefined>;
  /** Returns the apps for which a version was ever registered. */
  apps(): Promise<string[]>;
  /** Returns the versions of an app. An empty name returns the versions of all apps. */
  list(appName: string): Promise<VersionRecord[]>;
  setLatest(params: { readonly name: string; readonly appName: string; readonly now: number }): Promise<boolean>;
}
