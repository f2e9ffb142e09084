# Installs TunnelMesh on Windows, upgrades it, or takes it away. The counterpart of install.sh.
#
#   powershell -ExecutionPolicy Bypass -File deploy\install.ps1 -Role client `
#     -Archive tunnelmesh-1.0.0-windows-amd64.zip -Config client.yaml -TokenFile client-token -WinSW WinSW-x64.exe
#
# Run again with a newer archive it upgrades: the configuration stays, the old program is kept as
# .bak-<UTC>, and everything is put back when the new one does not accept the configuration,
# does not start, or when something fails on the way. Secrets are never parameters; the token comes from a file. Services of client
# and agent run through WinSW; a server is installed without a service.
#
# Exit: 0 done, 1 interrupted or failed on the way (rolled back), 2 arguments, 3 preflight,
# 5 checksum, 6 configuration, 7 service could not be set up or did not start (rolled back),
# 8 uninstall.
[CmdletBinding(PositionalBinding = $false)]
param(
    [ValidateSet('client', 'agent', 'server')][string]$Role,
    [ValidateSet('user', 'system')][string]$Mode = 'system',
    [string]$Archive,
    [string]$BinDir,
    [string]$Config,
    [string]$TokenFile,
    [string]$WinSW,
    [switch]$Reconfigure,
    [switch]$NoService,
    [switch]$NoStart,
    [switch]$Uninstall,
    [switch]$Yes,
    [Parameter(ValueFromRemainingArguments = $true)][string[]]$Rest
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

function Say([string]$Text) { Write-Output "install: $Text" }
function Die([int]$Code, [string]$Text) {
    [Console]::Error.WriteLine("install: $Text")
    exit $Code
}
function Confirm-Change([string]$Question) {
    if ($Yes) { return }
    if (-not [Environment]::UserInteractive) { Die 2 'nobody can be asked here: say -Yes' }
    if ((Read-Host "$Question [y/N]") -notmatch '^(y|yes)$') { Die 2 'nothing was changed' }
}

# --- arguments ------------------------------------------------------------------

if ($Rest) {
    # The value may be a secret: it is not repeated.
    if ($Rest -match '(?i)^-+\w*(token|password|secret|dsn|key)') {
        Die 2 'secrets are never parameters (other users see them): put the token into a file and use -TokenFile'
    }
    Die 2 'unknown argument'
}
if (-not $Role) { Die 2 '-Role client, agent or server is needed' }
if ($Archive -and $BinDir) { Die 2 '-Archive and -BinDir exclude each other' }
if ($Reconfigure -and -not $Config) { Die 2 '-Reconfigure needs -Config' }
if ($Role -eq 'server' -and $TokenFile) { Die 2 'a server has no token' }

$program = "tunnelmesh-$Role"
$service = "$program-service"
$stamp = (Get-Date).ToUniversalTime().ToString('yyyyMMddTHHmmssZ')
if ($Mode -eq 'system') {
    $bin = Join-Path $env:ProgramFiles 'TunnelMesh'
    $etc = Join-Path $env:ProgramData 'TunnelMesh'
} else {
    $bin = Join-Path $env:LOCALAPPDATA 'Programs\TunnelMesh'
    $etc = Join-Path $env:LOCALAPPDATA 'TunnelMesh'
}
$hasService = ($Mode -eq 'system') -and ($Role -ne 'server') -and (-not $NoService)
$installed = Join-Path $bin "$program.exe"
$wrapper = Join-Path $bin "$service.exe"
$unit = Join-Path $bin "$service.xml"
$settings = Join-Path $etc "$Role.yaml"
$token = Join-Path $etc "$Role-token"

function Invoke-Wrapper([string]$Verb) {
    & $wrapper $Verb | Out-Null
    return $LASTEXITCODE -eq 0
}
function Test-Running {
    $found = Get-Service -Name $program -ErrorAction SilentlyContinue
    return ($null -ne $found) -and ($found.Status -eq 'Running')
}
# It is up, and still is a moment later: a program that ends at once was "started", too.
function Start-AndWatch {
    if (-not (Invoke-Wrapper 'restart') -and -not (Invoke-Wrapper 'start')) { return $false }
    foreach ($second in 1..3) {
        Start-Sleep -Seconds 1
        if (-not (Test-Running)) { return $false }
    }
    return $true
}
# Only the system, administrators and the service's account read it.
function Protect-Secret([string]$Path) {
    if ($Mode -eq 'system') {
        & icacls $Path /inheritance:r /grant:r '*S-1-5-18:F' '*S-1-5-32-544:F' '*S-1-5-19:R' | Out-Null
    } else {
        & icacls $Path /inheritance:r /grant:r "$($env:USERNAME):F" | Out-Null
    }
    if ($LASTEXITCODE -ne 0) { Die 3 'the token file cannot be protected' }
}

# --- uninstall ------------------------------------------------------------------

if ($Uninstall) {
    Confirm-Change "Remove $program and its service?"
    if (-not (Test-Path $installed) -and -not (Test-Path $unit)) { Die 8 "$program is not installed here" }
    try {
        if (Test-Path $wrapper) {
            if (Test-Running) {
                if (-not (Invoke-Wrapper 'stop')) { Die 8 'the service could not be stopped; nothing was removed' }
            }
            Invoke-Wrapper 'uninstall' | Out-Null
        }
        Remove-Item -Force -ErrorAction SilentlyContinue -Path $wrapper, $unit, $installed, "$installed.bak-*"
    } catch {
        Die 8 'not everything could be removed'
    }
    Say "$program is removed; $etc is still there"
    exit 0
}

# --- preflight ------------------------------------------------------------------

if ($Mode -eq 'system') {
    $me = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
    if (-not $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
        Die 3 '-Mode system needs an administrator'
    }
}
if ($Config -and -not (Test-Path $Config)) { Die 3 '-Config: the file cannot be read' }
if (-not $Config -and -not (Test-Path $settings)) { Die 3 'there is no configuration yet: give one with -Config' }
if ($TokenFile -and -not (Test-Path $TokenFile)) { Die 3 '-TokenFile: the file cannot be read' }
if ($hasService -and -not $TokenFile -and -not (Test-Path $token)) {
    Die 3 'there is no token yet: give a file that holds it with -TokenFile'
}
if ($hasService -and -not (Test-Path $wrapper) -and (-not $WinSW -or -not (Test-Path $WinSW))) {
    Die 3 'WinSW is needed for the service: give its program with -WinSW, or use -NoService'
}

# What puts everything back, from the first change to the end.
$undo = $null
$scratch = Join-Path ([IO.Path]::GetTempPath()) "tunnelmesh-install-$([Guid]::NewGuid())"
New-Item -ItemType Directory -Path $scratch | Out-Null
try {
    if ($Archive) {
        if (-not (Test-Path $Archive)) { Die 3 '-Archive: the file cannot be read' }
        $name = Split-Path -Leaf $Archive
        $sums = Join-Path (Split-Path -Parent (Resolve-Path $Archive)) 'SHA256SUMS'
        if (Test-Path $sums) {
            $line = Get-Content $sums | Where-Object { $_ -match '^\S+\s+\*?(.+)$' -and $Matches[1] -eq $name } | Select-Object -First 1
            if (-not $line) { Die 5 "SHA256SUMS does not list $name" }
            $wanted = ($line -split '\s+')[0]
            if ((Get-FileHash -Algorithm SHA256 $Archive).Hash -ne $wanted) { Die 5 "$name is not what SHA256SUMS says" }
        } else {
            Say 'there is no SHA256SUMS beside the archive: it is not checked'
        }
        Expand-Archive -Path $Archive -DestinationPath (Join-Path $scratch 'archive')
        $found = Get-ChildItem -Recurse -File -Filter "$program.exe" (Join-Path $scratch 'archive') | Select-Object -First 1
        $found = if ($found) { $found.FullName } else { '' }
    } else {
        if (-not $BinDir) { $BinDir = Join-Path $PSScriptRoot 'bin' }
        $found = Join-Path $BinDir "$program.exe"
    }
    if (-not $found -or -not (Test-Path $found)) { Die 3 "there is no $program in what was given" }
    $staged = Join-Path $scratch "$program.exe"
    Copy-Item $found $staged
    $version = & $staged --version
    if ($LASTEXITCODE -ne 0) { Die 3 "$program does not run on this machine" }
    Confirm-Change "Install $version as a $Role ($Mode)?"

    # --- configuration ----------------------------------------------------------

    New-Item -ItemType Directory -Force -Path $bin, $etc | Out-Null
    $hadProgram = Test-Path $installed
    $hadUnit = Test-Path $unit
    $hadToken = Test-Path $token
    # Said just before a file is replaced, when the copy of the old one is complete.
    $isNewConfig = $false
    $isNewToken = $false
    $isNewProgram = $false
    $isNewUnit = $false
    $configBackup = "$settings.bak-$stamp"

    function Restore-Files {
        if ($isNewConfig) {
            Remove-Item -Force -ErrorAction SilentlyContinue $settings
            if (Test-Path $configBackup) { Move-Item -Force $configBackup $settings }
        }
        if ($isNewToken) {
            if ($hadToken) {
                Copy-Item -Force (Join-Path $scratch 'token') $token
            } else {
                Remove-Item -Force -ErrorAction SilentlyContinue $token
            }
        }
    }
    function Undo-Everything {
        if ($isNewUnit) { Invoke-Wrapper 'stop' | Out-Null }
        if ($isNewProgram) {
            if ($hadProgram) {
                Move-Item -Force "$installed.bak-$stamp" $installed
            } else {
                Remove-Item -Force -ErrorAction SilentlyContinue $installed
            }
        }
        if ($isNewUnit) {
            if ($hadUnit) {
                Copy-Item -Force (Join-Path $scratch 'unit') $unit
            } else {
                Invoke-Wrapper 'uninstall' | Out-Null
                Remove-Item -Force -ErrorAction SilentlyContinue $unit
            }
        }
        Restore-Files
        if ($hasService -and $hadProgram -and $hadUnit) { Invoke-Wrapper 'start' | Out-Null }
    }
    $undo = { Restore-Files }

    if ($Config -and ($Reconfigure -or -not (Test-Path $settings))) {
        if (Test-Path $settings) { Copy-Item $settings $configBackup }
        $isNewConfig = $true
        Copy-Item -Force $Config $settings
    } elseif ($Config) {
        Say "$settings is there and stays; -Reconfigure replaces it"
    }
    if ($TokenFile) {
        if ($hadToken) { Copy-Item $token (Join-Path $scratch 'token') }
        $isNewToken = $true
        Copy-Item -Force $TokenFile $token
        Protect-Secret $token
    }
    if (Test-Path $token) { Set-Item -Path "env:TUNNELMESH_$($Role.ToUpperInvariant())_TOKEN_FILE" -Value $token }
    & $staged check-config --config $settings
    if ($LASTEXITCODE -ne 0) {
        $undo = $null
        Restore-Files
        Die 6 'the configuration is not accepted; nothing was changed'
    }

    # --- program and service ----------------------------------------------------

    $undo = { Undo-Everything }
    if ($hasService -and (Test-Running)) { Invoke-Wrapper 'stop' | Out-Null }
    if ($hadProgram) { Copy-Item $installed "$installed.bak-$stamp" }
    $isNewProgram = $true
    Copy-Item -Force $staged $installed
    Get-ChildItem "$installed.bak-*" | Sort-Object Name -Descending | Select-Object -Skip 3 | Remove-Item -Force
    if (-not $hasService) {
        $undo = $null
        Say "$version is installed as $installed; no service was set up"
        Say "run it: `"$installed`" run --config `"$settings`""
        exit 0
    }

    if ($hadUnit) { Copy-Item $unit (Join-Path $scratch 'unit') }
    $isNewUnit = $true
    Copy-Item -Force (Join-Path $PSScriptRoot "windows\$service.xml") $unit
    if ($WinSW) { Copy-Item -Force $WinSW $wrapper }

    if (-not (Get-Service -Name $program -ErrorAction SilentlyContinue)) {
        if (-not (Invoke-Wrapper 'install')) {
            $undo = $null
            Undo-Everything
            Die 7 'the service could not be set up; everything is as it was'
        }
    }
    if ($NoStart) {
        $undo = $null
        Say "$version is installed; the service is not started"
        exit 0
    }
    if (-not (Start-AndWatch)) {
        $undo = $null
        Undo-Everything
        Die 7 "$program did not start (its log is in $etc\logs); everything is as it was"
    }
    $undo = $null
    Say "$version is installed and runs"
} finally {
    if ($undo) {
        & $undo
        [Console]::Error.WriteLine('install: not finished (see above); everything is as it was')
    }
    Remove-Item -Recurse -Force -ErrorAction SilentlyContinue $scratch
}
