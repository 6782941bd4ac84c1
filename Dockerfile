# Two images of the same program:
#   runtime (default)  the sandbox that agents work in
#   scratch            the program alone, to run by itself or to copy from
# Build for linux/amd64 or linux/arm64; .ci/images builds both without a registry.

FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY applets applets
COPY pkg pkg
ENV CGO_ENABLED=0 GOFLAGS=-trimpath\ -buildvcs=false
# The program makes its names itself. It does so as a program of the building
# machine; the one of the target takes its place below.
RUN go run . install --symlink --into /layout/usr/local/bin
ARG TARGETARCH
ARG VERSION=devel
ARG REVISION=unknown
RUN GOOS=linux GOARCH="$TARGETARCH" go build \
      -ldflags "-s -w -buildid= -X 'shellctl/applets.stamped=$VERSION ($REVISION)'" \
      -o /layout/usr/local/bin/shellctl .
RUN mkdir -p /layout/etc/ssl/certs /owned/home/dify /owned/workspace \
 && cp /etc/ssl/certs/ca-certificates.crt /layout/etc/ssl/certs/ \
 && printf '%s\n' 'root:x:0:0:root:/:/bin/sh' 'dify:x:1000:1000::/home/dify:/bin/sh' >/layout/etc/passwd \
 && printf '%s\n' 'root:x:0:' 'dify:x:1000:' >/layout/etc/group \
 && find /layout /owned -exec touch -h -d @0 {} +

FROM scratch AS scratch
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="shellctl" \
      org.opencontainers.image.description="Runs shell jobs for agents over HTTP: the program alone" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /layout/ /
COPY --from=build --chown=1000:1000 /owned/ /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SHELLCTL_BASE_URL=http://127.0.0.1:5004
USER dify
WORKDIR /home/dify
EXPOSE 5004
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["shellctl", "health"]
CMD ["shellctl", "serve", "--listen", "0.0.0.0:5004"]

FROM node:24.20.0-bookworm-slim AS node
RUN npm install --global --ignore-scripts pnpm@11.9.0

FROM ghcr.io/astral-sh/uv:0.8.9 AS uv

FROM python:3.12-slim-bookworm AS runtime
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="shellctl" \
      org.opencontainers.image.description="Runs shell jobs for agents over HTTP: the sandbox" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      bash ca-certificates curl file git iproute2 jq less openssh-client procps \
      ripgrep tini unzip xz-utils zip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/ldconfig/aux-cache \
      /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
COPY --from=node /usr/local/bin/node /usr/local/bin/
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN cd /usr/local/bin \
 && for link in npm:npm/bin/npm-cli.js npx:npm/bin/npx-cli.js \
      pnpm:pnpm/bin/pnpm.mjs pnpx:pnpm/bin/pnpx.mjs; do \
      ln -s "../lib/node_modules/${link#*:}" "${link%%:*}"; \
    done
COPY --from=uv /uv /uvx /usr/local/bin/
# Jobs make homes of their own beside /home/dify, hence its owner.
RUN groupadd --gid 1000 dify \
 && useradd --uid 1000 --gid 1000 --home-dir /home/dify --no-create-home --shell /bin/sh dify \
 && rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /var/log/lastlog /var/log/faillog
COPY --from=build --chown=1000:1000 /owned/ /
# chown of a copy leaves a directory that was there before to its owner.
RUN chown 1000:1000 /home
COPY --from=build /layout/usr/local/bin/ /usr/local/bin/
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    SHELLCTL_BASE_URL=http://127.0.0.1:5004
USER dify
WORKDIR /home/dify
EXPOSE 5004
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["shellctl", "health"]
ENTRYPOINT ["/usr/bin/tini", "-g", "--"]
CMD ["shellctl", "serve", "--listen", "0.0.0.0:5004"]
