import { checkName } from '../model/ids.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns HOLDFAST_VERSION. An empty value counts as unset: a script may have set it from a variable that does not
 * exist.
 */
export function versionFromEnvironment(env: Environment = process.env): string | undefined {
  const version = env.HOLDFAST_VERSION;
  return version ? checkName('The version in HOLDFAST_VERSION', version) : undefined;
}

/**
 * Environment variables in which hosting platforms and CI services store the commit or the release. Platforms come
 * first, because their variables describe this process. The variables of a CI service may describe the job that
 * started it.
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
 * Returns the commit or release that the hosting platform or CI service of this process names in the environment, or
 * undefined if there is none. Use it as the version of an app if each deploy finishes its own work, and old processes
 * run until their work is done.
 *
 * @example
 * const app = await launch({ name: 'shop', version: platformVersion(), workflows: [checkout] });
 */
export function platformVersion(env: Environment = process.env): string | undefined {
  const found = variables.find((name) => env[name]);
  // AWS Lambda uses $LATEST for all unpublished code, so every edit would have the same version.
  return found === undefined || env[found] === '$LATEST' ? undefined : env[found];
}
