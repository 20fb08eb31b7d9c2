#!/usr/bin/env bash
# tools/tarball.sh FOLDER OUT -- makes OUT/weft-VERSION-linux-MACHINE.tar.gz, a folder that runs
# wherever it lies, without installation, on systems with the C library of this one or a newer one;
# on Debian 12 that is glibc 2.36. All other libraries are linked into the command: shared ones
# would take the place of newer ones that a Vulkan driver of the system may need. Builds in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
mkdir -p "$build/tarball" "$2"
folder=$(realpath "$build/tarball")
out=$(realpath "$2")
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
name=weft-$version-linux-$(uname -m)
libraries=$folder/libraries
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

# quietly LOG COMMAND...: the end of what it printed when it fails.
quietly() {
    local log=$folder/$1.log
    shift
    "$@" >"$log" 2>&1 || { tail -40 "$log" && exit 1; }
}

# unpack PACKAGE: Debian's source package, with its security updates, into $folder/PACKAGE. The
# lists of source packages are kept in the folder, since the system's apt may not have them.
unpack() {
    local lists=(-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$folder/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
    mkdir -p "$folder/lists/partial"
    apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) main' 'Created-By: Packages' |
        sort -u >"$folder/sources.list"
    quietly lists apt-get "${lists[@]}" update
    rm -rf "${folder:?}/$1" "$folder/$1"_*
    quietly "$1.source" apt-get "${lists[@]}" source --download-only "$1"
    quietly "$1.unpack" dpkg-source -x "$1"_*.dsc "$folder/$1"
}

# Debian's libcurl.a needs LDAP, RTMP and Kerberos, and there is no libzip.a. Both are made here,
# with what Weft calls.
make_curl() {
    local protocols=(dict file ftp gopher imap ldap ldaps mqtt pop3 rtsp smb smtp telnet tftp)
    cd "$folder"
    unpack curl
    cd curl
    quietly curl.configure ./configure --prefix="$libraries" --with-pic --disable-shared \
        --with-openssl --without-{brotli,ca-bundle,ca-path,gssapi,libidn2,libpsl,librtmp,libssh2} \
        --without-{nghttp2,zlib,zstd} --disable-{ares,manual,ntlm} "${protocols[@]/#/--disable-}"
    quietly curl.build make -j"$(nproc)" -C lib install
    quietly curl.headers make -C include install
    quietly curl.module make install-pkgconfigDATA
}
make_libzip() {
    cd "$folder"
    unpack libzip
    cd libzip
    quietly libzip.configure cmake -S . -B build -G Ninja -DCMAKE_INSTALL_PREFIX="$libraries" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DBUILD_{DOC,EXAMPLES,REGRESS,TOOLS}=OFF \
        -DENABLE_{BZIP2,COMMONCRYPTO,GNUTLS,LZMA,MBEDTLS,OPENSSL,ZSTD}=OFF
    quietly libzip.build ninja -C build install
}
[ -e "$libraries/lib/libcurl.a" ] || (make_curl)
[ -e "$libraries/lib/libzip.a" ] || (make_libzip)

# The command with everything but the C library in it. The map names the archives it is made of.
map=$folder/map
export PKG_CONFIG_PATH=$libraries/lib/pkgconfig
quietly build tools/build.sh "$build" "cli/weft cli/weft.bash cli/weft.fish cli/_weft" \
    --prefix=/weft -D{default_library=static,prefer_static=true,strip=true} \
    -D{hdf5,mpi,serve}=disabled -D{vulkan,npz,gzip,zstd,snappy,pull,editline,yaml}=enabled \
    "-Dc_link_args=-static-libgcc -Wl,-Map=$map"

rm -rf "$folder/root" "${folder:?}/$name"
DESTDIR=$folder/root quietly install meson install -C "$build" --no-rebuild --tags runtime,man
mv "$folder/root/weft" "$folder/$name"
cp LICENSE CHANGELOG.md "$folder/$name"

# Nothing but the C library is needed, and no newer one.
command=$folder/$name/bin/weft
if readelf -d "$command" | grep NEEDED |
    grep -vE '\[(libc|libm|ld-linux[a-z0-9-]*)\.so\.[0-9]\]'; then
    echo "the command needs shared libraries other than the C library"
    exit 1
fi
newest=$(objdump -T "$command" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
echo "needs $newest"

# The license of each package of which the command has a part.
licenses=$folder/$name/licenses
mkdir -p "$licenses"
cp "$folder/curl/debian/copyright" "$licenses/curl"
cp "$folder/libzip/debian/copyright" "$licenses/libzip"
archives=$(sed '/^Memory Configuration/q' "$map" | grep -oE '^/[^(]+\.a' | xargs realpath |
    sort -u)
for archive in $archives; do
    case $archive in "$folder"/*) continue ;; esac
    package=$(dpkg-query -S "$archive" | sed 's/[:,].*//')
    cp -L "/usr/share/doc/$package/copyright" "$licenses/$package"
done
# The common licenses to which Debian's files refer.
grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$licenses" | sort -u |
    xargs cp -L -t "$licenses"

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
    -C "$folder" -czf "$out/$name.tar.gz" "$name"
ls -sh "$out/$name.tar.gz"
