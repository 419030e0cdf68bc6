import { checkName } from '../model/ids.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The version that an operator sets. An empty value counts as none: a script has set it from a variable that is not there. */
export function versionFromEnvironment(env: Environment = process.env): string | undefined {
  const version = env.HOLDFAST_VERSION;
  return version ? checkName('The version in HOLDFAST_VERSION', version) : undefined;
}

/**
 * Variables in which hosting platforms and CI services name the commit or the release that a process runs. Platforms come
 * first: what a platform says is about this process, what a CI service says may be about the job that started it.
 */
const variables = [
  'RENDER_GIT_COMMIT', // Render
  'RAILWAY_GIT_COMMIT_SHA', // Railway
  'VERCEL_GIT_COMMIT_SHA', // Vercel
  'HEROKU_BUILD_COMMIT', // Heroku
  'HEROKU_SLUG_COMMIT', // Heroku, older
  'KAMAL_VERSION', // Kamal
  'K_REVISION', // Google Cloud Run, Knative
  'GAE_VERSION', // Google App Engine
  'FLY_IMAGE_REF', // Fly.io
  'AWS_LAMBDA_FUNCTION_VERSION', // AWS Lambda
  'CODEBUILD_RESOLVED_SOURCE_VERSION', // AWS CodeBuild
  'COMMIT_REF', // Netlify
  'CF_PAGES_COMMIT_SHA', // Cloudflare Pages
  'SOURCE_COMMIT', // Coolify, Docker Hub
  'SOURCE_VERSION', // Cloud Foundry, buildpacks
  'GITHUB_SHA', // GitHub Actions
  'CI_COMMIT_SHA', // GitLab CI
  'CIRCLE_SHA1', // CircleCI
  'BITBUCKET_COMMIT', // Bitbucket Pipelines
  'BUILDKITE_COMMIT', // Buildkite
  'BUILD_SOURCEVERSION', // Azure Pipelines
  'TRAVIS_COMMIT', // Travis CI
  'GIT_COMMIT', // Jenkins
] as const;

/**
 * The commit or release that this process runs, as its hosting platform or CI service names it; undefined where none does.
 * For `launch({ version: platformVersion() })`, where each deploy finishes its own work and old processes run until then.
 *
 * @example
 * const app = await launch({ name: 'shop', version: platformVersion(), workflows: [checkout] });
 */
export function platformVersion(env: Environment = process.env): string | undefined {
  const found = variables.find((name) => env[name]);
  // AWS Lambda calls the code that was not published so: every edit would have the same version.
  return found === undefined || env[found] === '$LATEST' ? undefined : env[found];
}
